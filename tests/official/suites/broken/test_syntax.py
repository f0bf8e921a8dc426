def test_never(:
