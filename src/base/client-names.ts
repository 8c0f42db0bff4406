/**
 * The values of `clientInfo.name` of the clients that docs/guides/clients.md describes, as of 2026-11-26. They come from the
 * source code of the clients, or from what servers have logged.
 */
export const CLIENT_NAMES = {
  claude: ['Anthropic/ClaudeAI', 'claude-ai'],
  'claude-code': ['claude-code'],
  chatgpt: ['openai-mcp'],
  codex: ['codex-mcp-client'],
  cursor: ['cursor-vscode'],
  vscode: ['Visual Studio Code', 'Visual Studio Code - Insiders'],
  gemini: ['gemini-cli-mcp-client'],
  inspector: ['inspector-client', 'mcp-inspector'],
} as const satisfies Readonly<Record<string, readonly string[]>>
