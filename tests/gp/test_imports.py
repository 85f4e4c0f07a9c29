"""The package gp is usable without the rest. `import ebbtide` imports everything, so this looks at the import graph."""

import grimp

BOTTOM = {"ebbtide.errors", "ebbtide.checks", "ebbtide.guards", "ebbtide.version"}


def test_gp_needs_only_itself_and_the_bottom_layer():
    graph = grimp.build_graph("ebbtide", cache_dir=None)
    own = graph.find_descendants("ebbtide.gp") | {"ebbtide.gp"}
    assert "ebbtide.gp.linalg" in graph.find_upstream_modules("ebbtide.gp.criterion")  # the graph is not empty
    for module in sorted(own):
        assert graph.find_upstream_modules(module) <= own | BOTTOM, module
