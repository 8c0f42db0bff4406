/** Thrown by a check that is not possible. The message is the reason. */
export class InconclusiveError extends Error {
  override readonly name = 'InconclusiveError'
}

/** @throws {InconclusiveError} with the reason, unless a check is possible */
export function onlyIf(isPossible: boolean, reason: string): asserts isPossible {
  if (!isPossible) throw new InconclusiveError(reason)
}

/** Returns a result, or `undefined` if it is not possible to get it. */
export async function ifPossible<T>(result: Promise<T>): Promise<T | undefined> {
  return await result.catch((error: unknown) => {
    if (error instanceof InconclusiveError) return undefined
    throw error
  })
}
