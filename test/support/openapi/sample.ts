type Json = Record<string, any>

/** Texts for patterns: the first that fits is taken. */
const TEXTS = [
  'x',
  '1.0.0',
  'a@example.com',
  'YWI=',
  '/branches/1.0',
  'ssh-rsa AAAA',
  'a'.repeat(24),
  'a'.repeat(40),
  `sha256:${'a'.repeat(64)}`,
]

const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-01-01T00:00:00Z',
  date: '2026-01-01',
  uri: 'https://example.com/',
  email: 'a@example.com',
  uuid: '00000000-0000-4000-8000-000000000000',
}

/** A value that a schema most likely allows, with what is required only. Its `$ref`s begin at `root`. */
export function sampleOf(given: unknown, root: Json, depth = 0): unknown {
  const schema = follow(given, root)
  if (typeof schema !== 'object' || depth > 12) return 'x'
  const known = [schema.example, schema.examples?.[0], schema.default, schema.const, schema.enum?.[0]]
  const found = known.find((one) => one !== undefined && one !== null)
  if (found !== undefined) return found
  const of = (part: unknown) => sampleOf(part, root, depth + 1)
  const parts = [...(schema.allOf ?? []), ...[(schema.anyOf ?? schema.oneOf)?.[0]].filter(Boolean)]
  const type = [schema.type].flat().find((one) => one !== undefined && one !== 'null')
  if (type === undefined && schema.properties === undefined && parts.length > 0) {
    const values = parts.map((part) => of(part))
    const objects = values.every((value) => typeof value === 'object' && value !== null)
    return objects ? Object.assign({}, ...(values as object[])) : values[0]
  }
  switch (type ?? (schema.properties === undefined ? 'string' : 'object')) {
    case 'object': {
      const required = new Set<string>(
        [schema, ...parts].flatMap((part) => follow(part, root).required ?? []),
      )
      const properties = Object.assign(
        {},
        ...[...parts, schema].map((part) => follow(part, root).properties ?? {}),
      )
      for (const name of Object.keys(properties))
        if (required.size < (schema.minProperties ?? 0)) required.add(name)
      return Object.fromEntries([...required].map((name) => [name, of(properties[name] ?? {})]))
    }
    case 'array':
      return Array.from({ length: schema.minItems ?? 1 }, () => of(schema.items ?? {}))
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return textOf(schema)
  }
}

function textOf({ pattern, format, minLength = 1 }: Json): string {
  const text =
    typeof pattern === 'string'
      ? TEXTS.find((one) => one.length >= minLength && new RegExp(pattern, 'u').test(one))
      : FORMATS[format]
  return text ?? 'x'.repeat(Math.max(1, minLength))
}

function follow(given: unknown, root: Json): any {
  let found = given as Json | undefined
  while (typeof found?.$ref === 'string') {
    const steps = found.$ref.slice(2).split('/')
    found = steps.reduce(
      (node: any, step: string) =>
        node?.[decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')],
      root,
    )
  }
  return found ?? {}
}

/** Returns the target of a `$ref`, or the node itself. */
export const resolved = (node: unknown, root: Json): Json => follow(node, root)
