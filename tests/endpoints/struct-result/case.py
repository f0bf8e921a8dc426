"""chat/tools, gateways from chat to Gemini (LiteLLM and others): a tool result that happens to be JSON is decoded and sent as `function_response.response`, which must be an object. If a command prints only a number or a list, each later request fails: 400 `Invalid value at 'contents[4].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct), 2`. Any other text is accepted (as {"result": text}). Expected: resolved if the client words such a result differently, else a fault; never scored. (litellm#26590 "produces a primitive rather than a dict", bodhi_realtime_agent#10, AstrBot#7216)"""
from mock import *
CMDS = ['ls; cat numerals/roman.py', 'grep -c to_roman numerals/__init__.py', SOLVE, TEST]
class C(Case):
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if m['role'] != 'tool': continue
            try: v = json.loads(m['content'])
            except ValueError: continue
            if not isinstance(v, dict): return js({'error': {'message': f"Invalid value at 'contents[{i - 1}].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct), {m['content'].strip()}", 'type': 'invalid_request_error', 'param': None, 'code': '400'}}, 400)
    def answer(self, conv, k, body):
        s = steps(body); u = use(n_of(body), 60)
        return call(body, 'shell', sh(CMDS[s]), u) if s < 4 else call(body, 'submit', {}, u)
