"""chat/tools, oMLX and XML-format parsers: an argument declared as string whose text is JSON arrives decoded, as an object, streamed or not (the model wrote a correct string). The model writes a JSON file with `edit`, sees the type error, tries twice more and gives up. Expected: resolved if the client takes the object as its JSON text, a fault otherwise; never scored. (omlx#2646 "burns all of its turns", continue#8972, kilocode#4131, pi-free#244)"""
from mock import *
import re
class C(Case):
    def answer(self, conv, k, body):
        ms = body['messages']
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 63, 'total_tokens': n + 63}
        say = lambda *calls, text=None: self.both(body, {'role': 'assistant', 'content': text, **({'tool_calls': list(calls)} if calls else {})}, u)
        calls = {t['id']: t['function'] for m in ms if m['role'] == 'assistant' for t in m.get('tool_calls') or []}
        results = [(calls[m['tool_call_id']], m['content'] if isinstance(m['content'], str) else json.dumps(m['content'])) for m in ms if m['role'] == 'tool']
        edits = [text for call, text in results if call['name'] == 'edit']
        if not results: return say(tcall('shell', sh('ls'), id='c0'))
        ok = [t for t in edits if not re.search(r'(?i)\b(invalid|expected|must be|error|malformed|wrong type|not a string|not run)\b', t)]
        if not ok:
            if len(edits) >= 3: return say(text='I cannot write the sample file: the edit tool rejects its content each time. I stop here.')
            spec = next(t['function']['parameters'] for t in body['tools'] if t['function']['name'] == 'edit')
            args = dict.fromkeys(spec['properties'])
            file = next(p for p in ('file_text', 'text', 'content', 'new_str') if p in args)
            args.update(command='create', path=f'numerals/samples{len(edits)}.json')
            # The model writes the text {"I": 1, "IV": 4}; the server decodes it.
            args[file] = {'I': 1, 'IV': 4}
            return say(tcall('edit', args, id=f'c{len(results)}'))
        if not any('def from_roman' in call['arguments'] for call, _ in results): return say(tcall('shell', sh('rm -f numerals/samples*.json\n' + SOLVE), id=f'c{len(results)}'))
        return say(tcall('submit', {}, id=f'c{len(results)}'))
    def both(self, body, m, u):
        fin = 'tool_calls' if m.get('tool_calls') else 'stop'
        if body.get('stream'): return chat(m, fin=fin, usage=u)
        for t in m.get('tool_calls', []): t.pop('index', None)
        return js({'id': 'x', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': fin, 'message': m}], 'usage': u})
