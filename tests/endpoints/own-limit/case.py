"""responses/tools, honest: the arm allows 1,500 output tokens, and the model thinks until they are used up, each time: `incomplete`, max_output_tokens, with exactly the limit that the arm sets: the model's own, scored."""
from mock import *
class C(Case):
    api = 'responses'
    model = 'max_output_tokens = 1500'
    def answer(self, conv, k, body):
        if k == 0: return r_out(body, [fcall('ls; cat numerals/roman.py')], r_use(n_of(body), 40))
        text = ('But what about IIII, or VX, or an empty text? I should think about that again. ' * 90)[:6000]
        thought = {'type': 'reasoning', 'id': nid('rs_'), 'summary': [{'type': 'summary_text', 'text': text}], 'encrypted_content': 'E' * 40}
        return r_out(body, [thought], r_use(n_of(body), 1500, 1500), 'incomplete', {'reason': 'max_output_tokens'})
