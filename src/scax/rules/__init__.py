"""All that decides between steps: clock, step size, carry, damping, curvature memory, acceptance, averaging."""

from .acceptance import Acceptance as Acceptance
from .base import Outcome as Outcome
from .base import Rule as Rule
from .base import Seen as Seen
from .base import Stateless as Stateless
from .curvature_memory import LowRank as LowRank
from .damping import Fixed as Fixed
from .damping import Recovering as Recovering
from .damping import Relative as Relative
from .iterate_average import IterateAverage as IterateAverage
from .rules import Proposal as Proposal
from .rules import Rules as Rules
from .rules import RuleStates as RuleStates
from .rules import init as init
from .rules import propose as propose
from .rules import update as update
from .sequences import Approach as Approach
from .sequences import Constant as Constant
from .sequences import PowerDecay as PowerDecay
from .sequences import QuadraticDecay as QuadraticDecay
from .sequences import Sequence as Sequence
