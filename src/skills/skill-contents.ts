import { DIRECTORY_MIME_TYPE, type Skill, type SkillFileEntry } from '@modelcontextprotocol/server/ext/skills'
import { quotedName } from '../base/options/describe-value.ts'
import type { SkillContent, SkillDirectory, SkillFile } from '../mcp/router/skills.ts'
import { canonicalUri, MAX_URI_LENGTH } from '../mcp/router/uris/canonical-uri.ts'
import { mimeTypeOf } from './mime-type.ts'
import { unusableSource } from './options.ts'

/** The files that were read. */
interface ReadFiles {
  readonly folders: ReadonlyMap<string, readonly SkillFileEntry[]>
  readonly contents: ReadonlyMap<string, Uint8Array>
}

/**
 * Returns the skills with the content of their files. A file belongs to the innermost skill around it.
 * @param skills the skills as the SDK publishes them, in the order of their URIs
 */
export function skillContents(
  skills: readonly Skill[],
  { folders, contents }: ReadFiles,
  prefix: readonly string[],
): SkillContent[] {
  const published = new Set(
    skills.flatMap(({ resources }) => (resources === 'dynamic' ? [] : resources.map(({ uri }) => uri))),
  )
  const manifests = new Map(
    [...contents.keys()]
      .filter((path) => path.endsWith('/SKILL.md'))
      .map((path) => [uriOf(prefix, path), path]),
  )
  return skills.map((skill) => {
    const manifest = manifests.get(skill.uri)
    if (manifest === undefined) throw unnamable(skill.uri)
    const files = [fileOf(manifest)]
    const directories: SkillDirectory[] = []
    addFolder(manifest.slice(0, -'/SKILL.md'.length))
    return { skill, files: files as [SkillFile, ...SkillFile[]], directories }

    function addFolder(folder: string): void {
      const children = (folders.get(folder) ?? []).map(({ name, kind }) => {
        const path = `${folder}/${name}`
        const uri = uriOf(prefix, path)
        if (kind === 'directory') {
          if (!contents.has(`${path}/SKILL.md`)) addFolder(path)
          return { uri, name, mimeType: DIRECTORY_MIME_TYPE }
        }
        const file = fileOf(path)
        if (path !== manifest) files.push(file)
        return { uri, name, mimeType: file.mimeType, size: file.size }
      })
      const sorted = children.toSorted((a, b) => (a.uri < b.uri ? -1 : 1))
      directories.push(Object.freeze({ uri: uriOf(prefix, folder), children: Object.freeze(sorted) }))
    }
  })

  function fileOf(path: string): SkillFile {
    const uri = uriOf(prefix, path)
    const bytes = contents.get(path)
    if (bytes === undefined || !published.has(uri)) throw unnamable(path)
    const name = path.slice(path.lastIndexOf('/') + 1)
    return { uri, mimeType: mimeTypeOf(name), size: bytes.length, content: textOf(bytes) ?? bytes }
  }
}

/** Returns the URI of a path, as the SDK makes it. */
function uriOf(prefix: readonly string[], path: string): string {
  const [first = '', ...others] = [...prefix, ...path.split('/')]
  const uri = `skill://${[encodeURIComponent(first), ...others.map(encodedSegment)].join('/')}`
  // Requests are compared with canonical URIs.
  if (uri.length > MAX_URI_LENGTH || canonicalUri(uri) !== uri) throw unnamable(path)
  return uri
}

/** Encodes the characters that the URL parser encodes in a path, and those that would change its structure. */
function encodedSegment(segment: string): string {
  return segment.replaceAll(/[^\w!$&'()*+,.:;=@[\]|~-]/gu, (character) => encodeURIComponent(character))
}

/** Returns the text of bytes in UTF-8, with a byte order mark, or undefined if they are not UTF-8. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function unnamable(path: string): Error {
  return unusableSource(
    `must contain only names that fit in a URI: ${quotedName(path)} does not`,
    'Rename the file or folder.',
  )
}
