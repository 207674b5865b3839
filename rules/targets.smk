# Targets for parts of the workflow.


rule presample:
    """The samples of the base policy on the training set, scored."""
    input:
        LAYOUT.shards("verdicts", BASE, CONFIG.train_dataset, "presample"),
    localrule: True


rule partition:
    """The division of the training set."""
    input:
        path("partition"),
    localrule: True


rule reference:
    """The stored responses with their log-probs."""
    input:
        LAYOUT.if_has_model(rules.tensorise.output),
    localrule: True


rule train:
    """Every policy that is evaluated."""
    input:
        LAYOUT.if_has_model(path("base")),
        [LAYOUT.manifest(policy) for policy in LAYOUT.trained()],
    localrule: True


rule evaluate:
    """The evaluations of every policy on every evaluation set."""
    input:
        LAYOUT.evaluations(),
    localrule: True
