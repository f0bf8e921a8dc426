"""chat/tools, Copilot during a rollout: servers without the new model respond with 400 `model_not_supported` four times at step 2, and 404 once at step 3; the others respond normally. (oh-my-pi#7651, gh-aw#35075)"""
from mock import *
class C(Case):
    timeout = 150
    n = 0
    def script(self, conv): return [lambda: chat_call('ls')] * 3
    def check(self, conv, k, body, h):
        if k == 1 and self.n < 4:
            self.n += 1; code = ['model_not_supported', 'model_not_available_for_integrator'][self.n % 2]
            return js({'error': {'message': 'The requested model is not supported.', 'code': code, 'param': 'model', 'type': 'invalid_request_error'}}, 400)
        if k == 2 and self.n < 5:
            self.n += 1; return js({'error': {'message': 'The model `mock` does not exist.', 'type': 'NotFoundError', 'param': 'model', 'code': 404}}, 404)
