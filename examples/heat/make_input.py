#!/usr/bin/env python3
"""Draws couriers.png, the initial temperature of the demo: the characters 飛脚 ("flying legs", the
express couriers of old Japan) written with a hot brush, the sun above them, the road below.

    python3 make_input.py [FILE] [SIZE]

Standard library only, and deterministic: the same FILE and SIZE give the same pixels everywhere
(nothing but additions, products and square roots). Each shape is a function from a pixel to its
distance from the shape, in pixels; the distance becomes coverage, which makes smooth edges.
"""

import math
import struct
import sys
import zlib

# The strokes of each character on a 100 x 100 sheet, y downwards, in the order in which they are
# written. The angular forms are the brush's path; its round tip does the rest.
HI = [  # 飛, to fly: nine strokes
    [(10, 13), (62, 12), (60, 24), (64, 35), (73, 43), (85, 46), (87, 36)],
    [(86, 12), (70, 23)],
    [(69, 23), (84, 33)],
    [(35, 23), (11, 37)],
    [(24, 33), (24, 60), (19, 78), (6, 93)],
    [(4, 55), (62, 54), (60, 67), (64, 79), (74, 89), (87, 92), (90, 80)],
    [(43, 23), (43, 96)],
    [(86, 54), (70, 66)],
    [(69, 66), (84, 76)],
]
KYAKU = [  # 脚, leg: eleven strokes
    [(14, 9), (14, 58), (11, 76), (3, 94)],
    [(14, 9), (35, 9), (35, 91), (27, 86)],
    [(14, 34), (35, 34)],
    [(14, 59), (35, 59)],
    [(45, 27), (68, 27)],
    [(56, 9), (56, 47)],
    [(41, 47), (71, 47)],
    [(55, 49), (44, 82), (66, 77)],
    [(61, 64), (70, 88)],
    [(78, 15), (96, 15), (96, 66), (87, 64)],
    [(78, 15), (78, 96)],
]


class Picture:
    """A square of brightness between 0 and 1; where shapes overlap, the brighter one shows."""

    def __init__(self, size):
        self.size = size
        self.rows = [[0.0] * size for _ in range(size)]

    def draw(self, box, distance, level):
        """Draws the shape around which `distance(x, y)` is measured (negative inside)."""
        left, top, right, bottom = (min(max(int(edge), 0), self.size) for edge in box)
        for y in range(top, bottom):
            row = self.rows[y]
            for x in range(left, right):
                covered = min(max(0.5 - distance(x + 0.5, y + 0.5), 0.0), 1.0)
                if covered * level > row[x]:
                    row[x] = covered * level

    def segment(self, a, b, radius_a, radius_b, level):
        """A straight piece of a stroke, its half width going from `radius_a` to `radius_b`."""
        (ax, ay), (dx, dy) = a, (b[0] - a[0], b[1] - a[1])
        square = dx * dx + dy * dy

        def distance(x, y):
            along = min(max(((x - ax) * dx + (y - ay) * dy) / square, 0.0), 1.0)
            px, py = x - ax - along * dx, y - ay - along * dy
            return math.sqrt(px * px + py * py) - (radius_a + along * (radius_b - radius_a))

        reach = max(radius_a, radius_b) + 2
        xs, ys = sorted((a[0], b[0])), sorted((a[1], b[1]))
        self.draw((xs[0] - reach, ys[0] - reach, xs[1] + reach, ys[1] + reach), distance, level)

    def ring(self, centre, radius, half_width, level):
        """A circle line, or a disc where `radius` is 0."""

        def distance(x, y):
            dx, dy = x - centre[0], y - centre[1]
            return abs(math.sqrt(dx * dx + dy * dy) - radius) - half_width

        reach = radius + half_width + 2
        box = (centre[0] - reach, centre[1] - reach, centre[0] + reach, centre[1] + reach)
        self.draw(box, distance, level)

    def character(self, strokes, left, top, side, level):
        """A character in a square; a stroke starts heavy and ends light, as a brush's does."""
        scale = side / 100
        for stroke in strokes:
            points = [(left + x * scale, top + y * scale) for x, y in stroke]
            pieces = len(points) - 1
            width = [3.9 * scale - 1.5 * scale * i / pieces for i in range(pieces + 1)]
            for i in range(pieces):
                self.segment(points[i], points[i + 1], width[i], width[i + 1], level)

    def png(self):
        """The picture as an 8-bit gray PNG file."""

        def chunk(kind, data):
            checksum = zlib.crc32(kind + data)
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

        pixels = b"".join(
            b"\0" + bytes(int(level * 255 + 0.5) for level in row) for row in self.rows
        )
        header = struct.pack(">IIBBBBB", self.size, self.size, 8, 0, 0, 0, 0)
        return (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(pixels, 9))
            + chunk(b"IEND", b"")
        )


def couriers(size):
    """The whole picture; positions are in thousandths of its side."""
    picture, unit = Picture(size), size / 1000
    picture.ring((500 * unit, 500 * unit), 455 * unit, 7 * unit, 0.55)
    picture.ring((500 * unit, 178 * unit), 0, 62 * unit, 0.9)
    picture.character(HI, 108 * unit, 296 * unit, 370 * unit, 1.0)
    picture.character(KYAKU, 524 * unit, 296 * unit, 370 * unit, 1.0)
    # The road: lines that the couriers leave behind, thinning out to the left.
    for line, (start, end) in enumerate([(800, 205), (660, 330), (770, 300), (600, 420)]):
        y = (740 + 42 * line) * unit
        picture.segment((start * unit, y), (end * unit, y), 7 * unit, 1 * unit, 0.75)
    return picture


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "couriers.png"
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    with open(name, "wb") as file:
        file.write(couriers(side).png())
