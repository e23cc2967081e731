"""Topologies and what neighbours exchange (MPI 5.0 chapter 8), in programs written for mpi4py.

Every rank knows all edges of the topologies here, so it computes what should come, with numpy, and
compares. `GRAPHS` makes the same random graphs at all ranks.
"""

from __future__ import annotations

import textwrap

import pytest
from programs import start

SIZES = [1, 2, 3, 4, 6]

# Every form of a neighbour collective as a call that exchanges blocks of bytes: what goes out along
# each edge, in order, for what comes in along each edge.
FORMS = """
def run(comm, name, *arguments):
    '''Runs it in its three forms; what comes must be the same.'''
    getattr(comm, name)(*arguments)
    yield "blocking"
    getattr(comm, "I" + name[0].lower() + name[1:])(*arguments).Wait()
    yield "started"
    kept = getattr(comm, name + "_init")(*arguments)
    for turn in range(3):
        kept.Start()
        kept.Wait()
        yield f"persistent {turn}"
    kept.Free()

EMPTY = -7

def exchange(comm, outs, ins, value):
    '''Exchanges values in all collectives. `outs`, `ins`: the ranks at the other ends, or None.
    `value(edge)`: what must come along the edge of `ins` if each rank sends 100 * rank + edge.'''
    own, many = comm.rank, 3
    def want(block):
        return [EMPTY if of is None else block(edge, of) for edge, of in enumerate(ins)]
    # Allgather: the same to all.
    out = numpy.full(many, own, "i")
    into = numpy.empty((len(ins), many), "i")
    into[:] = EMPTY
    for form in run(comm, "Neighbor_allgather", out, into):
        expected = numpy.repeat(want(lambda edge, of: of), many).reshape(into.shape)
        assert (into == expected).all(), (form, into, expected)
        into[:] = EMPTY
    counts = [of or 0 for of in ins]
    places = numpy.cumsum([0] + [count + 1 for count in counts])
    gathered = numpy.full(places[-1], EMPTY, "i")
    spec = [gathered, counts, [int(at) for at in places[:-1]], MPI.INT]
    for form in run(comm, "Neighbor_allgatherv", [numpy.full(own, own, "i"), own, MPI.INT], spec):
        expected = numpy.full(places[-1], EMPTY, "i")
        for at, of in zip(places, ins):
            if of is not None:
                expected[at : at + of] = of
        assert (gathered == expected).all(), (form, gathered, expected)
        gathered[:] = EMPTY
    # Alltoall: another block for each edge.
    out = numpy.array([[100 * own + edge] * many for edge in range(len(outs))], "i")
    out = out.reshape(len(outs), many)
    into[:] = EMPTY
    expected = numpy.repeat(want(lambda edge, of: value(edge)), many).reshape(into.shape)
    for form in run(comm, "Neighbor_alltoall", out, into):
        assert (into == expected).all(), (form, into, expected)
        into[:] = EMPTY
    # One element more along each later edge cannot be the same at both ends: all have two.
    sends = [out, [2] * len(outs), [many * edge for edge in range(len(outs))], MPI.INT]
    receives = [into, [2] * len(ins), [many * edge + 1 for edge in range(len(ins))], MPI.INT]
    expected[:, 0] = EMPTY
    for form in run(comm, "Neighbor_alltoallv", sends, receives):
        assert (into == expected).all(), (form, into, expected)
        into[:] = EMPTY
    # Alltoallw: every other element, from the middle of each row, to a row of chars as bytes.
    spread = MPI.INT.Create_vector(2, 1, 2).Commit()
    width = 4 * many
    sends = [out, [1] * len(outs), [width * edge for edge in range(len(outs))], [spread] * len(outs)]
    receives = [into, [1] * len(ins), [width * edge for edge in range(len(ins))], [spread] * len(ins)]
    expected = numpy.repeat(want(lambda edge, of: value(edge)), many).reshape(into.shape)
    expected[:, 1] = EMPTY
    for form in run(comm, "Neighbor_alltoallw", sends, receives):
        assert (into == expected).all(), (form, into, expected)
        into[:] = EMPTY
    spread.Free()

def channelled(comm, outs, ins):
    '''What comes in a graph: the k-th edge from a to b is the k-th edge of b from a.'''
    all_outs = comm.allgather(outs)
    def value(edge):
        of = ins[edge]
        k = ins[:edge].count(of)
        theirs = [at for at, to in enumerate(all_outs[of]) if to == comm.rank]
        return 100 * of + theirs[k]
    return value
"""


@pytest.fixture
def topology(job):
    """topology(n, source): a program that has the functions above."""
    return lambda n, source: job(n, FORMS + textwrap.dedent(source))


@pytest.mark.parametrize("n", SIZES)
def test_grids_exchange_with_both_sides_of_every_dimension(topology, n):
    topology(
        n,
        """
        import itertools
        for ndims in [0, 1, 2, 3]:
            sizes = [dims for dims in itertools.product(range(1, size + 1), repeat=ndims)
                     if numpy.prod(dims, dtype=int) <= size]
            for dims in sizes:
                for wraps in itertools.product([False, True], repeat=ndims):
                    grid = world.Create_cart(dims, wraps)
                    inside = rank < numpy.prod(dims, dtype=int)
                    assert (grid != MPI.COMM_NULL) == inside
                    if not inside:
                        continue
                    assert grid.topology == MPI.CART and grid.dim == ndims
                    place = list(numpy.unravel_index(rank, dims)) if ndims else []
                    assert grid.Get_topo() == (list(dims), [int(w) for w in wraps], place)
                    ends, value = [], {}
                    for dimension in range(ndims):
                        for by in [-1, 1]:
                            there = list(place)
                            there[dimension] += by
                            if wraps[dimension]:
                                there[dimension] %= dims[dimension]
                            beyond = not 0 <= there[dimension] < dims[dimension]
                            of = None if beyond else int(numpy.ravel_multi_index(there, dims))
                            # What one side sends as block s arrives as block s ^ 1.
                            value[len(ends)] = None if beyond else 100 * of + (len(ends) ^ 1)
                            ends.append(of)
                        source, to = grid.Shift(dimension, 1)
                        null = MPI.PROC_NULL
                        assert source == (null if ends[-2] is None else ends[-2])
                        assert to == (null if ends[-1] is None else ends[-1])
                    # All forms on a few of them: the rest is the same code.
                    if numpy.prod(dims, dtype=int) == size or ndims < 2:
                        exchange(grid, ends, ends, value.get)
                    grid.Free()
        """,
    )


@pytest.mark.parametrize("n", SIZES)
def test_random_graphs_exchange_along_every_edge(topology, n):
    topology(
        n,
        """
        for seed in range(6):
            random = numpy.random.default_rng(seed)
            edges = [tuple(pair) for pair in random.integers(0, size, (3 * size, 2)).tolist()]
            edges = edges[: int(random.integers(0, 3 * size + 1))]
            outs = [to for of, to in edges if of == rank]
            ins = [of for of, to in edges if to == rank]
            weights = [int(w) for w in random.integers(0, 9, len(edges))]
            out_weights = [w for (of, _), w in zip(edges, weights) if of == rank]
            in_weights = [w for (_, to), w in zip(edges, weights) if to == rank]
            for weighted in [False, True]:
                given = (in_weights, out_weights) if weighted else (MPI.UNWEIGHTED, MPI.UNWEIGHTED)
                graph = world.Create_dist_graph_adjacent(ins, outs, *given)
                assert graph.topology == MPI.DIST_GRAPH
                assert graph.Get_dist_neighbors_count() == (len(ins), len(outs), weighted)
                expected = (in_weights, out_weights) if weighted else None
                assert graph.Get_dist_neighbors() == (ins, outs, expected)
            exchange(graph, outs, ins, channelled(graph, outs, ins))
            copy = graph.Dup()
            graph.Free()
            exchange(copy, outs, ins, channelled(copy, outs, ins))
            copy.Free()
            # Named by anybody: rank r names every edge whose number it divides with the rest r.
            named = [pair for at, pair in enumerate(edges) if at % size == rank]
            mine = [w for at, w in enumerate(weights) if at % size == rank]
            sources = [of for of, _ in named]
            graph = world.Create_dist_graph(
                sources, [1] * len(named), [to for _, to in named], mine)
            order = sorted(range(len(edges)), key=lambda at: (at % size, at))
            outs = [edges[at][1] for at in order if edges[at][0] == rank]
            ins = [edges[at][0] for at in order if edges[at][1] == rank]
            found = graph.Get_dist_neighbors()
            assert found[:2] == (ins, outs)
            assert found[2][0] == [weights[at] for at in order if edges[at][1] == rank]
            exchange(graph, outs, ins, channelled(graph, outs, ins))
            graph.Free()
        """,
    )


@pytest.mark.parametrize("n", SIZES)
def test_graphs_that_all_ranks_know(topology, n):
    topology(
        n,
        """
        for seed in range(4):
            random = numpy.random.default_rng(seed)
            nodes = int(random.integers(1, size + 1))
            lists = [[] for _ in range(nodes)]
            for a, b in random.integers(0, nodes, (nodes, 2)).tolist():
                lists[a].append(b)
                if a != b:
                    lists[b].append(a)
            index = numpy.cumsum([len(of) for of in lists]).tolist()
            edges = [to for of in lists for to in of]
            graph = world.Create_graph(index, edges)
            assert (graph != MPI.COMM_NULL) == (rank < nodes)
            if rank >= nodes:
                continue
            assert graph.topology == MPI.GRAPH and graph.Get_dims() == (nodes, len(edges))
            assert graph.Get_topo() == (index, edges)
            assert [graph.Get_neighbors(of) for of in range(nodes)] == lists
            ends = lists[rank]
            exchange(graph, ends, ends, channelled(graph, ends, ends))
            graph.Free()
        assert world.Create_graph([], []) == MPI.COMM_NULL
        """,
    )


@pytest.mark.parametrize("n", [1, 4, 6])
def test_slices_of_grids(topology, n):
    topology(
        n,
        """
        import itertools
        dims = MPI.Compute_dims(size, 3)
        assert numpy.prod(dims) == size and dims == sorted(dims, reverse=True)
        grid = world.Create_cart(dims, [True, False, True])
        place = grid.coords
        for keep in itertools.product([False, True], repeat=3):
            part = grid.Sub(keep)
            kept = [at for at in range(3) if keep[at]]
            assert part.Get_topo() == ([dims[at] for at in kept], [[1, 0, 1][at] for at in kept],
                                       [place[at] for at in kept])
            alike = [other for other in range(size) if all(
                grid.Get_coords(other)[at] == place[at] for at in range(3) if not keep[at])]
            assert part.allgather(rank) == alike
            again = part.Sub([False] * len(kept))
            assert again.dim == 0 and again.size == 1
            again.Free()
            part.Free()
        point = grid.Sub([False] * 3)
        assert point.Sub([]).dim == 0
        assert grid.Get_cart_rank(place) == rank
        assert grid.Get_cart_rank([place[0] - dims[0], place[1], place[2] + dims[2]]) == rank
        """,
    )


def test_ranks_that_may_be_numbered_anew_share_nodes_with_their_neighbours(tmp_path):
    program = """
    # Far pairs talk: 0 and 2, 1 and 3. Nodes have two ranks.
    partner = (rank + 2) % 4
    graph = world.Create_dist_graph_adjacent([partner], [partner], [9], [9], reorder=True)
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    partner = graph.inedges[0]
    nodes = graph.allgather(world.allgather(rank)[node.group.Translate_ranks([0], world.group)[0]])
    assert nodes[graph.rank] == nodes[partner], nodes
    into = numpy.zeros(1, "i")
    graph.Neighbor_allgather(numpy.array([graph.rank], "i"), into)
    assert into[0] == partner
    mapped = MPI.Intracomm(world).Cart_map([2, 2], [True, True])
    assert world.Create_cart([2, 2], [True, True], reorder=True).rank == mapped
    """
    done = start(tmp_path, ["run", "-n", "4", "--ranks-per-node", "2"], program)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_duplicates_take_over(topology):
    topology(
        4,
        """
        grid = world.Create_cart([2, 2], [True, False])
        key = MPI.Comm.Create_keyval(lambda c, k, v: v + 1)
        grid.Set_attr(key, 5)
        copy = grid.Dup()
        assert copy.Get_topo() == grid.Get_topo() and copy.topology == MPI.CART
        assert copy.Get_attr(key) == 6
        grid.Free()
        assert world.topology == MPI.UNDEFINED
        into = numpy.full(4, -1, "i")
        copy.Neighbor_alltoall(numpy.arange(4, dtype="i") + 10 * rank, into)
        up = (rank + 2) % 4
        across = rank ^ 1
        expected = [10 * up + 1, 10 * up, -1, -1]
        expected[2 + (rank % 2 == 0)] = 10 * across + (2 if rank % 2 == 0 else 3)
        assert into.tolist() == expected, (into, expected)
        split = copy.Split(0)
        assert split.topology == MPI.UNDEFINED
        """,
    )


def test_what_is_wrong_has_the_class_of_the_standard(topology):
    topology(
        2,
        """
        one = numpy.zeros(2, "i")
        fails(MPI.ERR_TOPOLOGY, world.Create_cart, [3])
        fails(MPI.ERR_DIMS, world.Create_cart, [-1])
        fails(MPI.ERR_DIMS, world.Create_cart, [0, 2])
        fails(MPI.ERR_DIMS, MPI.Compute_dims, 7, [2, 0])
        fails(MPI.ERR_NOT_SAME, world.Create_cart, [1 + rank])
        fails(MPI.ERR_RANK, world.Create_graph, [1, 2], [7, 0])
        fails(MPI.ERR_RANK, world.Create_dist_graph_adjacent, [2], [])
        fails(MPI.ERR_RANK, world.Create_dist_graph_adjacent, [-1] if rank else [], [])
        fails(MPI.ERR_NOT_SAME, world.Create_dist_graph, [0], [1], [0],
              [3] if rank else MPI.UNWEIGHTED)
        # A graph may have edges in one direction, but its neighbours cannot exchange.
        graph = world.Create_graph([1, 1], [1])
        fails(MPI.ERR_TOPOLOGY, graph.Neighbor_allgather, one, one)
        graph = world.Create_dist_graph_adjacent([1], []) if rank == 0 else \\
            world.Create_dist_graph_adjacent([], [])
        fails(MPI.ERR_TOPOLOGY, graph.Neighbor_allgather, one, one)
        grid = world.Create_cart([2], [False])
        fails(MPI.ERR_ARG, grid.Get_cart_rank, [2])
        fails(MPI.ERR_RANK, grid.Get_coords, 2)
        fails(MPI.ERR_DIMS, grid.Shift, 1, 1)
        fails(MPI.ERR_BUFFER, grid.Neighbor_allgather, MPI.IN_PLACE, one)
        # Sizes that differ are the receiver's error.
        pair = world.Create_dist_graph_adjacent([1 - rank], [1 - rank])
        if rank == 0:
            fails(MPI.ERR_TRUNCATE, pair.Neighbor_alltoall, one[:1], one[:1])
        else:
            fails(MPI.ERR_COUNT, pair.Neighbor_alltoall, one, one)
        assert pair.allgather(rank) == [0, 1]
        """,
    )


ROUNDS = """
half = size // 2
others = [other for other in range(size) if other // half != rank // half]
graph = world.Create_dist_graph_adjacent(others, others)
out = numpy.empty((len(others), 3), "i")
into = numpy.empty((len(others), 3), "i")
kept = graph.Neighbor_alltoall_init(out, into, MPI.Info.Create({"hikyaku_exchange": SCHEME}))
for turn in range(ROUNDS):
    out[:] = [[100 * turn + 10 * rank + to] for to in others]
    kept.Start()
    kept.Wait()
    assert (into == [[100 * turn + 10 * of + rank] for of in others]).all(), into
kept.Free()
"""


def test_an_info_object_says_how_queues_serve_neighbours(tmp_path):
    """Two nodes of two ranks, each with edges to both of the other: 8 edges, each with a put of data
    and a READY-TO-RECV, or combined one of both each way."""

    def crossed(scheme, rounds):
        records = tmp_path / "records.csv"
        words = ["simulate", "-m", "fx100-tofu2", "-n", "4", "--ranks-per-node", "2"]
        source = f"SCHEME, ROUNDS = {scheme!r}, {rounds}\n{ROUNDS}"
        done = start(tmp_path, [*words, "--records", records], source)
        assert done.returncode == 0, done.stderr
        lines = [line.split(",") for line in records.read_text().splitlines()]
        return sum(
            line[1] == "send" and int(line[2]) // 2 != int(line[3]) // 2 for line in lines
        )

    for scheme, expected in [("mrc", 16), ("combined", 4)]:
        assert crossed(scheme, 7) - crossed(scheme, 2) == 5 * expected, scheme


def test_a_scheme_that_there_is_not_is_an_error(job):
    job(
        2,
        """
        ring = world.Create_cart([size], [True])
        spare = numpy.zeros(2, "i")
        unknown = MPI.Info.Create({"hikyaku_exchange": "tree"})
        try:
            ring.Neighbor_alltoall_init(spare, spare.copy(), unknown)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_INFO_VALUE
            assert "there are fast, mrc, combined and messages" in str(error), str(error)
        else:
            raise AssertionError("it was made")
        """,
    )
