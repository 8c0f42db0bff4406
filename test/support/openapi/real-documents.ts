import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'
import { parse } from 'yaml'

/** A document of data/, and what it is known to become. */
export interface RealDocument {
  readonly name: string
  readonly text: string
  readonly tools: number
  readonly leftOut: readonly string[]
}

/** The text of a file of data/. */
function textOf(file: string): string {
  const bytes = readFileSync(new URL(`../../../../test/openapi/data/${file}`, import.meta.url))
  return (file.endsWith('.br') ? brotliDecompressSync(bytes) : bytes).toString('utf8')
}

export const realDocuments: readonly RealDocument[] = [
  {
    name: 'Petstore',
    text: textOf('petstore.yaml'),
    tools: 18,
    leftOut: ['its body is of type application/octet-stream'],
  },
  { name: 'Figma', text: textOf('figma.yaml.br'), tools: 54, leftOut: [] },
  { name: 'STAPI', text: textOf('stapi.json.br'), tools: 120, leftOut: [] },
  {
    name: 'GitHub',
    text: textOf('github.json.br'),
    tools: 1221,
    leftOut: [
      'its body is of type text/plain, text/x-markdown',
      'its body is of type application/octet-stream',
    ],
  },
]

/** The document as an object, for tests that look into it. */
export function parsed(text: string): Record<string, any> {
  return text.startsWith('{') ? JSON.parse(text) : parse(text)
}
