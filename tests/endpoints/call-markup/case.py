"""chat/tools: at step 2 a call arrives as markup in the text, each time in a different form; then as a call. (sglang#40236, stdapi.ai#182, hermes-agent#24534, vllm#31207, command-code#909, oh-my-pi#8495)"""
from mock import *
F = {
 'hermes': '<tool_call>\n{"name": "shell", "arguments": {"command": "cat numerals/roman.py", "timeout": null}}\n</tool_call>',
 'dsml': '<｜DSML｜function_calls>\n<｜DSML｜invoke name="shell">\n<｜DSML｜parameter name="command" string="true">cat numerals/roman.py</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
 'dsml2': "I look at the package.\n\n<｜｜DSML｜｜ calls>\n<｜｜DSML｜｜ invoke name=\"shell\">\n<｜｜DSML｜｜ parameter name=\"command\" string=\"true\">cat numerals/roman.py</｜｜DSML｜｜ parameter>\n</｜｜DSML｜｜ invoke>\n</｜｜DSML｜｜ calls>",
 'ds31': '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>shell<｜tool▁sep｜>{"command": "cat numerals/roman.py", "timeout": null}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
 'kimi': '<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:1<|tool_call_argument_begin|>{"command": "cat numerals/roman.py", "timeout": null}<|tool_call_end|><|tool_calls_section_end|>',
 'kimi3': '<|open|>toolscall tool="shell" index="1"<|sep|><|open|>argument key="command" type="string"<|sep|>cat numerals/roman.py<|close|>argument<|sep|><|close|>call<|sep|><|close|>toolsmessage<|sep|>',
 'glm': '<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>cat numerals/roman.py</arg_value>\n</tool_call>',
 'qwen': '<function=shell>\n<parameter=command>\ncat numerals/roman.py\n</parameter>\n</function>\n</tool_call>',
 'mistral': '[TOOL_CALLS]shell[ARGS]{"command": "cat numerals/roman.py", "timeout": null}',
 'harmony': '<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"command": "cat numerals/roman.py", "timeout": null}<|call|>',
 'minimax': '<minimax:tool_call>\n<invoke name="shell">\n<parameter name="command">cat numerals/roman.py</parameter>\n</invoke>\n</minimax:tool_call>',
 'xai': '<xai:function_call name="shell"><parameter name="command">cat numerals/roman.py</parameter></xai:function_call>',
 'llama': '<|python_tag|>{"type": "function", "name": "shell", "parameters": {"command": "cat numerals/roman.py", "timeout": null}}',
 'bare': '{"name": "shell", "arguments": {"command": "cat numerals/roman.py", "timeout": null}}',
 'gemma': '```tool_code\nprint(default_api.shell(command="cat numerals/roman.py"))\n```',
}
class C(Case):
    n = 0
    def answer(self, conv, k, body):
        if k >= 1 and self.n < 5:
            form = ['hermes', 'dsml', 'kimi3', 'xai', 'bare'][self.n]
            self.n += 1
            r = chat({'role': 'assistant', 'content': F[form]}, fin='stop'); r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
