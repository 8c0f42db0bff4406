/**
 * Runs `work` without the warnings of `oidc-provider` about its memory and about runtimes other than the newest of Node.js, with
 * which this package is tested. Other warnings are printed.
 */
export async function withoutNotices<T>(work: () => T | Promise<T>): Promise<T> {
  const { warn } = console
  const filtered: typeof warn = (...args) => {
    if (!/oidc-provider WARNING: (Unsupported runtime|a quick start)/.test(String(args[0])))
      warn.apply(console, args)
  }
  console.warn = filtered
  try {
    return await work()
  } finally {
    if (console.warn === filtered) console.warn = warn
  }
}
