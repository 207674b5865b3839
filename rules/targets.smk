# Targets for parts of the workflow.


rule presample:
    """The samples of the base policy on the training set, scored."""
    input:
        collect("<results>/draws/{draw}/verdicts/<train>.{presample}", draw=DRAWS, presample=PRESAMPLES),


rule partition:
    """The division of the training set."""
    input:
        collect("<results>/draws/{draw}/partition/final.parquet", draw=DRAWS),


rule reference:
    """The stored responses with their log-probs."""
    input:
        collect("<results>/draws/{draw}/{file}", draw=DRAWS, file=STORED),


rule train:
    """Every policy that is evaluated."""
    input:
        collect("<results>/policies/{policy}.json", policy=MODELS),
        collect("<results>/policies/{policy}", policy=MODELS),


rule evaluate:
    """The evaluations of every policy on every evaluation set."""
    input:
        rules.make_tables.input.evaluations,
