/** Polls `condition` and resolves when it is true. */
export async function until(condition: () => boolean | Promise<boolean>, everyMs = 0): Promise<void> {
  while (!(await condition())) {
    await new Promise((resolve) => (everyMs === 0 ? setImmediate(resolve) : setTimeout(resolve, everyMs)))
  }
}

/** Resolves when `count` has returned the same number ten times in a row, and `isIdle`, if it is given, returns `true`. */
export async function standstill(
  count: () => number,
  everyMs: number,
  isIdle: () => boolean = () => true,
): Promise<void> {
  let before = -1
  let same = 0
  await until(() => {
    const now = count()
    same = before === now ? same + 1 : 0
    before = now
    return same >= 10 && isIdle()
  }, everyMs)
}
