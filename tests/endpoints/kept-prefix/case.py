"""messages/tools, proxies over the Claude CLI or an OAuth login (claude-code-proxy, CLIProxyAPI, neurolink): they rename each tool to `mcp__client_tools__NAME` for the service behind them and do not restore the name in responses, streamed or not. In requests, both names are read. The model calls the only tool it sees by the name it sees. After five `unknown tool` results it gives up. Expected: resolved (each name ends with that of an offered tool), or a fault; never the model's unknown tool. (claude-code-proxy#2 "strip the mcp__client_tools__ prefix the CLI adds", SpeakMCP#981 "LLM proxy returns proxy_...", neurolink#919)"""
from mock import *
P = 'mcp__client_tools__'
CMDS = ['ls; cat numerals/roman.py', SOLVE, TEST]
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        res = [b for m in body['messages'] if isinstance(m['content'], list) for b in m['content'] if b['type'] == 'tool_result']
        text = [json.dumps(b.get('content')) for b in res]
        bad = sum('nknown tool' in t or 'no tool' in t.lower() or 'not a tool' in t for t in text)
        step = len(res) - bad
        if bad >= 5: block, stop = {'type': 'text', 'text': 'None of the tools that I was given exists, so I stop here.'}, 'end_turn'
        elif step >= 3: block, stop = tuse(name=P + 'submit', input={}), 'tool_use'
        else: block, stop = tuse(CMDS[step], name=P + 'shell'), 'tool_use'
        n = n_of(body)
        if not body.get('stream'): return js({'id': f'msg_{self.seq}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [block], 'stop_reason': stop, 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 60}})
        return mev(*blocks_events([block], stop, {'input_tokens': n, 'output_tokens': 1}, {'output_tokens': 60}))
