import { isOptionsObject, type OptionKit } from './option-kit.ts'
import { isRecord } from './value-kinds.ts'

/**
 * Returns `true` for a client of ioredis or node-redis. Both are event emitters. Clients of other libraries are not, and take
 * other arguments. A plain object is a client that the application has made itself.
 * @param methods the methods that are needed, as node-redis writes them. ioredis writes them in lower case.
 */
export function isRedisClient(client: unknown, methods: readonly string[]): boolean {
  if (!isRecord(client) || (typeof client.on !== 'function' && !isOptionsObject(client))) return false
  return [methods, methods.map((name) => name.toLowerCase())].some((names) =>
    names.every((name) => typeof client[name] === 'function'),
  )
}

/** Throws the error of `kit` unless `client` is a client of ioredis or node-redis. */
export function checkRedisClient(
  { invalidKind }: Pick<OptionKit<Error>, 'invalidKind'>,
  option: string,
  client: unknown,
  methods: readonly string[],
): void {
  if (!isRedisClient(client, methods))
    throw invalidKind(option, `must be an ioredis or node-redis client, with ${methods.join(', ')}`, client)
}
