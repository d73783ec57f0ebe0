"""All tasks: a new one is a file here and a line below."""

from seqlab.tasks import caption, classify, forecast, generate, pretrain, tag, translate
from seqlab.tasks.task import TaskConfig

__all__ = [
    "DEFAULT",
    "TaskConfig",
    "caption",
    "classify",
    "forecast",
    "generate",
    "pretrain",
    "tag",
    "translate",
]

DEFAULT = classify.Classify()
"""Where a settings file names no task."""
