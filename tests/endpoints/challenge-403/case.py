"""messages/tools, Anthropic and relays behind Cloudflare: twice at step 2, a request gets 403 with the HTML page `Just a moment...` (the bot check of the proxy, not the API); the same request with the same key is answered a moment later. Expected: resolved (or a fault); never scored. (claude-code#30437, activeagent#228 "temporary cloudflare errors", code-graph-rag#142 "It worked once but then cloudflare started throwing the challenge")"""
from mock import *
PAGE = '<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title><meta http-equiv="Content-Type" content="text/html; charset=UTF-8"><meta name="robots" content="noindex,nofollow"></head><body><div class="main-content"><h2>Checking your browser before accessing the site.</h2><noscript>Enable JavaScript and cookies to continue</noscript></div></body></html>'
class C(Case):
    api = 'messages'
    n = 0
    def check(self, conv, k, body, h):
        if len(body['messages']) == 3 and self.n < 2:
            self.n += 1
            return js(PAGE, 403, {'server': 'cloudflare', 'cf-mitigated': 'challenge', 'cf-ray': '8d49989abc171ce8-IAD'}, 'text/html; charset=UTF-8')
    def answer(self, conv, k, body): return [msg(tuse('ls')), msg(tuse(SOLVE)), msg(tuse(name='submit', input={}))][min(sum(m['role'] == 'assistant' for m in body['messages']), 2)]
