"""chat/tools, DashScope: repeated id '' and null arguments, finish_reason next to an empty delta; a truncated call and a call without arguments; every function.arguments in the history must be a JSON object. (nanobot#2469, ainovel-cli#52, xiaozhi#1958)"""
from mock import *
class C(Case):
    def script(self, conv):
        p = lambda a, i='', n=None: {'tool_calls': [{'index': 0, 'id': i, 'type': 'function', 'function': {'name': n, 'arguments': a}}]}
        return [lambda: chat({'role': 'assistant', 'content': ''}, p('', 'c1', 'shell'), p('{"comm'), p('and": "ls", "timeout": null}'), p(None)),
                lambda: chat({'role': 'assistant', 'content': ''}, p(None, 'c2', 'shell'), p(None)),
                lambda: chat({'role': 'assistant', 'content': ''}, p('{"command": "ls', 'c3', 'shell'), p(None)),
                lambda: chat({'role': 'assistant', 'content': ''}, p('"ls"', 'c4', 'shell'), p(None))]
    def check(self, conv, k, body, h):
        for m in body['messages']:
            for t in m.get('tool_calls') or []:
                try: ok = isinstance(json.loads(t['function']['arguments']), dict)
                except Exception: ok = False
                if not ok: return js({'error': {'message': '<400> InternalError.Algo.InvalidParameter: The "function.arguments" parameter of the code model must be in JSON format.', 'type': 'invalid_request_error', 'param': None, 'code': 'invalid_parameter_error'}, 'request_id': 'r'}, 400)
