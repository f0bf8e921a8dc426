"""chat/tools, llama.cpp (Vulkan, CUDA with F16 weights, deepseek-coder and gpt-oss): once the prompt is longer than a few hundred tokens, the logits are broken, and each response is a long run of `G`, streamed or not, ended with `stop` by the server's loop guard, until the server is restarted. Expected: a fault with a hint; never the model's answers without a call. (llama.cpp#15112 "a response of GGGGGGGGGGGGGG", DeepSeek-Coder#151)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        u = lambda c: use(n_of(body), c)
        if k == 0: return call(body, 'shell', sh('ls; cat numerals/*.py'), u(30))
        if GOOD: return call(body, *[('shell', sh(SOLVE)), ('submit', {})][min(k - 1, 1)], u(200))
        return say(body, 'G' * 1500, u(377))
