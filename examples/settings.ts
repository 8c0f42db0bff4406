/**
 * Returns the environment variables that an example requires. If variables are missing, prints all of them and exits.
 * @param wanted a description of each variable
 */
export function settings<Name extends string>(wanted: Readonly<Record<Name, string>>): Record<Name, string> {
  const names = Object.keys(wanted) as Name[]
  const missing = names.filter((name) => !process.env[name])
  if (missing.length > 0) {
    const width = Math.max(...missing.map((name) => name.length))
    console.error('Set these environment variables:')
    for (const name of missing) console.error(`  ${name.padEnd(width)}  ${wanted[name]}`)
    process.exit(1)
  }
  return Object.fromEntries(names.map((name) => [name, process.env[name]])) as Record<Name, string>
}
