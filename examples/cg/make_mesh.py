#!/usr/bin/env python3
"""Writes a sparse symmetric positive definite matrix of an irregular mesh, in Matrix Market form.

    python3 make_mesh.py mesh.mtx [CELLS]

The mesh covers an L: a square without its upper right quarter, with a round hole. Its nodes are
those of a square grid of CELLS cells a side (32 if not given), moved by up to a quarter of a cell in
directions that follow from their numbers alone, so the same arguments give the same file
everywhere. Each cell is cut into two triangles along its shorter diagonal. The matrix is the
stiffness matrix of linear finite elements for the Poisson equation, with nodes on the border taken
out (u = 0 there): symmetric, and positive definite whatever the triangles look like.

Nodes are numbered along a Z-order curve. Blocks of consecutive rows then are patches of the mesh
that touch several others along borders of different lengths: irregular neighbours.

Needs Python's standard library only.
"""

import sys

MASK = (1 << 64) - 1


def noise(number):
    """A number in [-1, 1) that follows from another (SplitMix64's mixing)."""
    mixed = (number * 0x9E3779B97F4A7C15 + 0x7F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 52) - 1.0


def inside(x, y):
    """Whether the middle of a cell belongs to the domain, the square being [0, 1] x [0, 1]."""
    if x > 0.5 and y > 0.5:
        return False
    return (x - 0.27) ** 2 + (y - 0.27) ** 2 > 0.012


def z_order(i, j):
    """Place on the curve that visits quarters of quarters one after the other."""
    place = 0
    for bit in range(16):
        place |= (i >> bit & 1) << (2 * bit) | (j >> bit & 1) << (2 * bit + 1)
    return place


def triangles(cells):
    """The triangles of the mesh as triples of nodes, and where the nodes are."""
    at = {}
    for j in range(cells + 1):
        for i in range(cells + 1):
            number = 2 * (j * (cells + 1) + i)
            at[i, j] = (i + noise(number) / 4, j + noise(number + 1) / 4)
    found = []
    for j in range(cells):
        for i in range(cells):
            if not inside((i + 0.5) / cells, (j + 0.5) / cells):
                continue
            a, b, c, d = (i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)
            first = (at[a][0] - at[c][0]) ** 2 + (at[a][1] - at[c][1]) ** 2
            second = (at[b][0] - at[d][0]) ** 2 + (at[b][1] - at[d][1]) ** 2
            found += [(a, b, c), (a, c, d)] if first < second else [(a, b, d), (b, c, d)]
    return found, at


def stiffness(found, at):
    """Entries of the stiffness matrix by pair of nodes, and the nodes on the border."""
    entries, edges = {}, {}
    for triangle in found:
        (x0, y0), (x1, y1), (x2, y2) = (at[node] for node in triangle)
        # Twice the area; the gradients of the three hat functions, times that.
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        assert area > 0, "nodes moved by less than a quarter of a cell leave no triangle empty"
        gradients = [(y1 - y2, x2 - x1), (y2 - y0, x0 - x2), (y0 - y1, x1 - x0)]
        for p, (px, py) in zip(triangle, gradients):
            for q, (qx, qy) in zip(triangle, gradients):
                entries[p, q] = entries.get((p, q), 0.0) + (px * qx + py * qy) / (2 * area)
        for p, q in zip(triangle, triangle[1:] + triangle[:1]):
            edge = (min(p, q), max(p, q))
            edges[edge] = edges.get(edge, 0) + 1
    border = {node for edge, times in edges.items() if times == 1 for node in edge}
    return entries, border


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    cells = int(sys.argv[2]) if len(sys.argv) == 3 else 32
    if not 4 <= cells <= 4096:
        sys.exit("CELLS must be 4 to 4096")
    found, at = triangles(cells)
    entries, border = stiffness(found, at)
    nodes = sorted({node for pair in entries for node in pair} - border, key=lambda n: z_order(*n))
    number = {node: index + 1 for index, node in enumerate(nodes)}
    lower = [(number[q], number[p], value) for (p, q), value in entries.items()
             if p in number and q in number and number[p] >= number[q]]
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("%%MatrixMarket matrix coordinate real symmetric\n")
        file.write("% Stiffness matrix of linear finite elements on an irregular L-shaped mesh.\n")
        file.write(f"% Made by examples/cg/make_mesh.py with {cells} cells a side.\n")
        file.write(f"{len(nodes)} {len(nodes)} {len(lower)}\n")
        for column, row, value in sorted(lower):
            file.write(f"{row} {column} {value:.12g}\n")


if __name__ == "__main__":
    main()
