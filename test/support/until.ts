/** Polls `condition` and resolves when it is true. */
export async function until(condition: () => boolean | Promise<boolean>, everyMs = 0): Promise<void> {
  while (!(await condition())) {
    await new Promise((resolve) => (everyMs === 0 ? setImmediate(resolve) : setTimeout(resolve, everyMs)))
  }
}
