"""Error bars: the linearized Gaussian posterior at trained weights, and the evidence that sets the penalty."""

from .calibration import calibration_error as calibration_error
from .calibration import log_loss as log_loss
from .evidence import train_by_evidence as train_by_evidence
from .fit import posterior as posterior
from .posterior import Posterior as Posterior
