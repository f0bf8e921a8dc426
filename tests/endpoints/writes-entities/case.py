"""chat/tools: the model itself works on HTML, and its commands contain entities next to plain characters. They must run unchanged."""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat_call("printf '&lt;p&gt; &amp;amp; <b>' > page.html && sed -i 's/&lt;/</; s/&gt;/>/' page.html"), lambda: chat_call("grep -c '&amp;' page.html; grep -v '&lt;p&gt;' page.html; rm page.html")]
