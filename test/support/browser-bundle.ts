import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

/** Bundles a compiled file and the packages that it imports into one file, which also runs as a script. */
export async function browserBundle(file: URL): Promise<string> {
  const bundle = await rolldown({
    input: fileURLToPath(file),
    platform: 'browser',
    logLevel: 'silent',
    transform: { define: { 'import.meta': '{}' } },
  })
  try {
    const { output } = await bundle.generate({ format: 'esm', codeSplitting: false } as object)
    return output[0].code
  } finally {
    await bundle.close()
  }
}
