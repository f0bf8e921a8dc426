"""messages/tools, Anthropic behind a gateway that adds the web_fetch server tool: at step 2 the model calls it and `shell` in one turn, so the API defers the fetch: stop_reason tool_use, a server_tool_use without its result, and a tool_use. The next request must have this turn unchanged and, right behind it, exactly one tool_result (for the tool_use) and nothing else; the next response then starts with the web_fetch_tool_result for the earlier id, before its own tool_use, and that block must be sent back, too. Expected: resolved. (anthropic-sdk-typescript#1090 "send a user message containing only the tool_result blocks for the client tools ... the next response's content starts with the web_fetch_tool_result", vellum-assistant#42901, openai-agents-js#1542, anthropic-sdk-python#1325)"""
from mock import *
FETCH = {'type': 'server_tool_use', 'id': 'srvtoolu_01A', 'name': 'web_fetch', 'input': {'url': 'https://docs.python.org/3/library/enum.html'}}
GOT = {'type': 'web_fetch_tool_result', 'tool_use_id': 'srvtoolu_01A', 'content': {'type': 'web_fetch_tool_result_error', 'error_code': 'unavailable'}}
TURNS = [
    [{'type': 'text', 'text': 'I look at the package.'}, tuse('ls; cat numerals/roman.py', id='toolu_0')],
    [{'type': 'text', 'text': 'I check the documentation and the export.'}, FETCH, tuse('cat numerals/__init__.py', id='toolu_1')],
    [GOT, {'type': 'text', 'text': 'The page is not available; I write it.'}, tuse(SOLVE, id='toolu_2')],
    [tuse('/venv/bin/python -m pytest -q | tail -2', id='toolu_3')],
    [tuse(name='submit', input={}, id='toolu_4')],
]
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        blocks = TURNS[min(sum(m['role'] == 'assistant' for m in body['messages']), 4)]
        n = len(json.dumps(body)) // 4
        if not body.get('stream'): return js({'id': f'msg_{k}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': blocks, 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 110}})
        ev = blocks_events(blocks, 'tool_use', {'input_tokens': n, 'output_tokens': 1}, {'output_tokens': 110, 'server_tool_use': {'web_fetch_requests': 1}})
        out = []
        for e in ev:
            if e['type'] == 'content_block_start' and e['content_block']['type'] == 'server_tool_use':
                out += [{**e, 'content_block': {**FETCH, 'input': {}}}, {'type': 'content_block_delta', 'index': e['index'], 'delta': {'type': 'input_json_delta', 'partial_json': json.dumps(FETCH['input'])}}]
            else: out.append(e)
        return mev(*out)
    def check(self, conv, k, body, h):
        plain = lambda b: {q: v for q, v in b.items() if q not in ('cache_control', 'citations')}
        ms, turn = body['messages'], 0
        for i, m in enumerate(ms):
            if m['role'] != 'assistant': continue
            if [plain(b) for b in m['content']] != TURNS[turn]: return merr(400, f'messages.{i}: web_fetch tool use with id srvtoolu_01A was found without a corresponding web_fetch_tool_result block, or the turn was changed')
            after = ms[i + 1]['content']
            ids = [b['id'] for b in m['content'] if b['type'] == 'tool_use']
            if [b.get('tool_use_id') for b in after] != ids or any(b['type'] != 'tool_result' for b in after): return merr(400, f'messages.{i + 1}: a turn with a deferred server tool must be followed by tool_result blocks for {ids} only')
            turn += 1
