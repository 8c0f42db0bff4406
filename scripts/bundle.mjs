// Writes `dist`, which is published, from the compiler's output in `build/package`: one file for each entry of package.json,
// and the chunks that they share. The code keeps its lines and the names of functions, which stack traces show. Comments are in
// the declarations only.
import { readFileSync, rmSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { rolldown } from 'rolldown'
import { minifySync } from 'rolldown/utils'
import { dts } from 'rolldown-plugin-dts'

const COMPILED = 'build/package/'
/** Packages stay imports. These are bundled, because loading them takes longer than running them (see LICENSE). */
const isPackage = /^(?!(?:fastest-levenshtein|fresh)$)[^./]/

const { exports, imports, bin } = JSON.parse(readFileSync('package.json', 'utf8'))
const libraries = Object.values(exports).flatMap((target) => target.default ?? [])
const programs = Object.values(bin)
/** The forms of `src/mcp/load-serving.ts`, which Node.js and bundlers choose from, and the file that one of them loads. */
const conditional = [...new Set(Object.values(imports).flatMap(Object.values)), './dist/mcp/serving.js']

/** The dependencies of each module, by its id. */
const dependencies = new Map()

/** The chunks that several entries share. Each may import those before it. */
const SHARED = ['basics', 'telemetry', 'gate-parts']

/** Shorter code with the same lines and names of functions. */
const SHORTENED = {
  compress: { keepNames: { function: true, class: true } },
  mangle: { keepNames: true },
  codegen: { removeWhitespace: false },
}
/** Libraries also keep the names at the top of a module. Bundlers can only leave out declarations that are not joined. */
const LIBRARY = {
  compress: { ...SHORTENED.compress, joinVars: false },
  mangle: { toplevel: false, keepNames: true },
  codegen: SHORTENED.codegen,
}

rmSync('dist', { recursive: true, force: true })
await bundle(
  { ...inputOf([...libraries, ...conditional], 'src/', '.js'), ...inputOf(programs, '', '.js') },
  [conditionalImports(), forEachFile(withoutPaths), forEachFile(withShortProgram)],
  {
    comments: { jsdoc: false },
    minify: LIBRARY,
    chunkFileNames: 'shared/[name].js',
    codeSplitting: { groups: SHARED.map(groupOf) },
  },
)
// The script of the console page, which `dev` serves.
await bundle({ 'cli/page/main': `${COMPILED}cli/dev/page/main.js` }, [], { comments: false, minify: true })
// The observer of requests, which `dev` loads into the server.
await bundle({ 'cli/observer/main': `${COMPILED}cli/dev/observer/main.js` }, [forEachFile(withoutPaths)], {
  comments: false,
  minify: SHORTENED,
})
await bundle(
  inputOf(libraries, 'src/', '.d.ts'),
  [dts({ dtsInput: true, tsconfig: false }), forEachFile(withoutPaths)],
  {
    chunkFileNames: 'types/[name].js',
    minifyInternalExports: false,
  },
)

/** Returns the group of modules that become a chunk. A group takes the dependencies of its modules, unless an earlier group has them. */
function groupOf(chunk, index) {
  const name = (id, graph) => (sharedChunk(id, graph) === chunk ? chunk : null)
  return { name, priority: SHARED.length - index, debugName: chunk }
}

/**
 * Returns the chunk of a module that several entries may share, or null for the chunk that the bundler chooses. Each file takes
 * time to load, and most of the modules that are shared are small.
 */
function sharedChunk(id, graph) {
  const isIn = (entry) => dependenciesOf(`src/${entry}.js`, graph).has(id)
  if (id.includes('/src/telemetry/')) return isIn('telemetry/index') ? 'telemetry' : null
  if (isIn('telemetry/index')) return 'basics'
  const isPlain = [...dependenciesOf(id, graph)].every(
    (name) => name.startsWith('/') || name.startsWith('node:'),
  )
  return isPlain && isIn('gate') ? 'gate-parts' : null
}

/** Maps each file of `dist`, such as `./dist/telemetry/index.js`, to the compiled file of the same name. */
function inputOf(files, folder, extension) {
  const names = files.map((file) => file.replace(/^\.\/dist\/|\.js$/g, ''))
  return Object.fromEntries(names.map((name) => [name, COMPILED + folder + name + extension]))
}

/** Returns the ids of a module and of everything that it imports, directly or indirectly. `id` may be a path in `build/package`. */
function dependenciesOf(id, graph) {
  const first = id.startsWith('/') ? id : resolve(COMPILED, id)
  let found = dependencies.get(first)
  if (found === undefined) {
    found = new Set([first])
    dependencies.set(first, found)
    for (const each of found) for (const next of graph.getModuleInfo(each)?.importedIds ?? []) found.add(next)
  }
  return found
}

async function bundle(input, plugins, output) {
  // The ESM form of a bundled package. The helpers for CommonJS would import `node:module`, which browsers do not have.
  const mainFields = ['module', 'main']
  const bundle = await rolldown({
    input,
    plugins,
    external: isPackage,
    platform: 'node',
    resolve: { mainFields },
    checks: { bundlerTimings: false },
  })
  await bundle.write({ dir: 'dist', ...output })
  await bundle.close()
}

/** Turns each import of a file that has several forms into the import `#…` of package.json, which chooses between them. */
function conditionalImports() {
  return {
    name: 'conditional-imports',
    resolveId(source) {
      const name = `#${basename(source, '.js')}`
      return source.startsWith('.') && name in imports ? { id: name, external: true } : null
    },
  }
}

function forEachFile(change) {
  return {
    name: 'for-each-file',
    generateBundle(_options, files) {
      for (const file of Object.values(files)) file.code = change(file.code, file.fileName)
    },
  }
}

/** Shortens the program further than the libraries, with which it is bundled. */
function withShortProgram(code, name) {
  return name.startsWith('cli/') ? minifySync(name, code, { module: true, ...SHORTENED }).code : code
}

/** Removes the comments that name the compiled files. */
function withoutPaths(code) {
  return code.replace(/^\/\/ build\/.*\n/gm, '')
}
