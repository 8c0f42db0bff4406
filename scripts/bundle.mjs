// Makes `dist`, which is published, of what the compiler wrote into `build/package`: a file for each entry of
// package.json, and beside them what they share. What is exported and all classes keep their names, and every statement
// has a line of its own, so that stack traces can be read and Node shows the statement that threw, not the whole file.
import { readFileSync, rmSync } from 'node:fs'
import { rolldown } from 'rolldown'
import { parseAst } from 'rolldown/parseAst'
import { dts } from 'rolldown-plugin-dts'

const COMPILED = 'build/package/'
/** What is needed at run time, but for what Node takes longer to load than to run: that goes into the bundles (see LICENSE). */
const isPackage = /^(?!fastest-levenshtein$)[^./]/
const keepNames = { function: false, class: true }

const { exports, bin } = JSON.parse(readFileSync('package.json', 'utf8'))
const libraries = Object.values(exports).flatMap((target) => target.default ?? [])
const entries = await Promise.all(libraries.map((file) => import(file.replace('./dist/', `../${COMPILED}`))))
const reserved = entries.flatMap(Object.keys)

rmSync('dist', { recursive: true, force: true })
await bundle(inputOf([...libraries, ...Object.values(bin)], '.js'), forEachFile('lines', withLines), {
  chunkFileNames: 'shared/[name].js',
  minify: {
    compress: { target: 'es2023', keepNames },
    mangle: { toplevel: true, keepNames, reserved },
    codegen: { removeWhitespace: true },
  },
})
// The page of the console, which the program serves.
await bundle({ 'cli/page/main': `${COMPILED}cli/dev/page/main.js` }, [], { minify: true })
await bundle(
  inputOf(libraries, '.d.ts'),
  [dts({ dtsInput: true, tsconfig: false }), forEachFile('paths', withoutPaths)],
  {
    chunkFileNames: 'types/[name].js',
    minifyInternalExports: false,
  },
)

/** @param files what is made, such as `./dist/telemetry/index.js`, each of the compiled file of that name */
function inputOf(files, extension) {
  const names = files.map((file) => file.replace(/^\.\/dist\/|\.js$/g, ''))
  return Object.fromEntries(names.map((name) => [name, COMPILED + name + extension]))
}

async function bundle(input, plugins, output) {
  const bundle = await rolldown({ input, plugins, external: isPackage, platform: 'node' })
  await bundle.write({ dir: 'dist', ...output })
  await bundle.close()
}

function forEachFile(name, change) {
  return {
    name,
    generateBundle(_options, files) {
      for (const file of Object.values(files)) file.code = change(file.code)
    },
  }
}

/** Begins a line with each statement and each member of a class. */
function withLines(code) {
  const starts = startsIn(parseAst(code)).sort((a, b) => a - b)
  const lines = starts.map((start, index) => code.slice(start, starts[index + 1]).trimEnd())
  return `${code.slice(0, starts[0])}${lines.join('\n')}\n`
}

function startsIn(node) {
  if (typeof node !== 'object' || node === null) return []
  const here = Array.isArray(node.body) ? node.body.map(({ start }) => start) : []
  return [...here, ...Object.values(node).flatMap(startsIn)]
}

/** Leaves out the comments that say which file a declaration is from. */
function withoutPaths(code) {
  return code.replace(/^\/\/ build\/.*\n/gm, '')
}
