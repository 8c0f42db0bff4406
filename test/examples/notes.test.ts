import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { NoteStore } from '../../examples/notes.ts'

describe('the store of notes', () => {
  let outer: string
  let folder: string
  let notes: NoteStore

  beforeEach(async () => {
    outer = await mkdtemp(join(tmpdir(), 'notes-test-'))
    folder = join(outer, 'notes')
    await mkdir(folder)
    notes = await NoteStore.open(folder)
  })
  afterEach(() => rm(outer, { recursive: true }))

  it('the store writes, reads, lists, finds, and deletes notes', async () => {
    await notes.write('tea', 'green\nblack')
    await notes.write('bread', 'Rye')
    expect(await notes.list()).to.deep.equal(['bread', 'tea'])
    expect(await notes.read('tea')).to.equal('green\nblack')
    expect(await notes.search('RY')).to.deep.equal([{ name: 'bread', line: 'Rye' }])
    expect(await notes.delete('tea')).to.equal(true)
    expect(await notes.delete('tea')).to.equal(false)
    expect(await notes.read('tea')).to.equal(undefined)
  })

  it('the store keeps notes complete if many writes run at the same time', async () => {
    const texts = Array.from({ length: 20 }, (_, index) => String(index).repeat(10_000))
    await Promise.all(texts.map((text) => notes.write('busy', text)))
    expect(await readdir(folder)).to.deep.equal(['busy.md'])
    expect(texts).to.include(await readFile(join(folder, 'busy.md'), 'utf8'))
  })

  for (const name of [
    '../secret',
    '..',
    '/etc/hosts',
    'a/b',
    'a\\b',
    'a.md',
    'a\0b',
    '',
    '-a',
    'É',
    'a'.repeat(64),
  ]) {
    it(`the store rejects the name ${JSON.stringify(name.slice(0, 12))}`, async () => {
      await writeFile(join(outer, 'secret.md'), 'not a note')
      const attempts = [() => notes.read(name), () => notes.write(name, 'x'), () => notes.delete(name)]
      for (const attempt of attempts) {
        const error = await attempt().then(
          () => undefined,
          (reason: unknown) => reason,
        )
        expect(error).to.be.an('error').with.property('message').that.includes('cannot be named')
      }
      expect(await readFile(join(outer, 'secret.md'), 'utf8')).to.equal('not a note')
    })
  }

  it('the store does not open a missing folder or a file', async () => {
    await writeFile(join(outer, 'file'), '')
    for (const path of [join(outer, 'nowhere'), join(outer, 'file')]) {
      const error = await NoteStore.open(path).catch((reason: unknown) => reason)
      expect(error).to.be.an('error').with.property('message', `The folder ${path} does not exist`)
    }
  })
})
