"""How the documentation is built: `make docs` (Sphinx, every warning is an error)."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "extensions")]

from ebbtide import __version__

project, author = "ebbtide", "the ebbtide developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "drawings", "mathml", "names", "commands"]
exclude_patterns = ["extensions", "data"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_mock_imports = ["torch", "gpytorch"]  # gigabytes: the BoTorch integration is documented without them
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
default_role = "py:obj"

html_theme = "furo"
html_title = f"ebbtide {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False
