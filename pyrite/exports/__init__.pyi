from .card import model_card as model_card
from .files import Exported as Exported, export as export
from .whole import Whole as Whole, whole as whole
