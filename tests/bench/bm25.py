"""Ranks Proctor's queries with bm25s and measures the time: `bm25.py TREE TERMS`.

TERMS contains the documents, an empty line and the queries, one JSON object per line. Each object has the list `terms`,
and a document's `name` or a query's `text`. To measure how long indexing raw text takes, the script reads the files in
TREE itself. Prints one JSON object.
"""
import json
import pathlib
import sys
import time

import bm25s
import Stemmer

tree, terms = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
documents, queries = (part.splitlines() for part in terms.read_text().split("\n\n"))
names, documents = zip(*[(one["name"], one["terms"]) for one in map(json.loads, documents)])
queries = [json.loads(query) for query in queries]

# Rank the documents by the terms that Proctor extracted.
ranker = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
ranker.index(list(documents), show_progress=False)
ranked = []
for query in queries:
    found, scores = ranker.retrieve([query["terms"]], k=min(20, len(names)), show_progress=False, n_threads=1)
    ranked.append([[names[at], float(score)] for at, score in zip(found[0], scores[0])])

# Measure how long it takes to index raw text with bm25s's tokenizer and PyStemmer's Porter stemmer.
texts = [f"{name}\n{(tree / name).read_bytes().decode()}" for name in names]
stemmer = Stemmer.Stemmer("porter")


def words(texts):
    return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)


began = time.perf_counter()
ranker = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
ranker.index(words(texts), show_progress=False)
indexing = time.perf_counter() - began
began = time.perf_counter()
for query in queries:
    ranker.retrieve(words([query["text"]]), k=min(20, len(names)), show_progress=False, n_threads=1)
asking = (time.perf_counter() - began) / len(queries)
print(json.dumps({"ranked": ranked, "indexing": indexing, "asking": asking, "version": bm25s.__version__}))
