"""The audit of a run: every artifact checked by itself and against the others, and any artifact shown to a human."""

from dphrl.audit.crate import write_crate
from dphrl.audit.page import render_page
from dphrl.audit.provenance import lineage
from dphrl.audit.run import AuditError, audit_run, require_passed, summary
from dphrl.audit.show import show
from dphrl.audit.walk import NoRunError

__all__ = [
    "AuditError",
    "NoRunError",
    "audit_run",
    "lineage",
    "render_page",
    "require_passed",
    "show",
    "summary",
    "write_crate",
]
