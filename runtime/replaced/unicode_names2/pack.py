"""Packs Unicode's tables of names into names.lzma: pack.py UnicodeData.txt NameAliases.txt names.lzma

A line is a name, in the order of characters:

    gap? shared rest      gap: characters left out before it, in hexadecimal small letters
                          shared: how many words it begins with as the name before it, as a letter from A on
                          rest: the other words

Behind an empty line are the aliases, `hexadecimal name`. Names that are made by a rule (CJK ideographs, Hangul) are left out.
"""

import lzma
import sys

data, aliases, out = sys.argv[1:]
lines, before, expected = [], [], 0
for row in open(data, encoding="ascii"):
    code, name = row.split(";")[:2]
    code = int(code, 16)
    if name.startswith("<"):
        continue
    words, shared = name.split(" "), 0
    while shared < min(len(words), len(before)) and words[shared] == before[shared]:
        shared += 1
    gap = f"{code - expected:x}" if code > expected else ""
    lines.append(gap + chr(ord("A") + shared) + " ".join(words[shared:]))
    before, expected = words, code + 1
lines.append("")
for row in open(aliases, encoding="utf-8"):
    if row.strip() and not row.startswith("#"):
        code, name = row.split(";")[:2]
        lines.append(f"{int(code, 16):x} {name}")
packed = lzma.compress(
    "\n".join(lines).encode(),
    format=lzma.FORMAT_ALONE,
    filters=[{"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}],
)
with open(out, "wb") as file:
    file.write(packed)
