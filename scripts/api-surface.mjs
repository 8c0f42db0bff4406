/** What the extractor says of a constructor without a docstring. */
const MADE_UP = /Constructs a new instance of the `\w+` class/

/** The public surface: what the entries of the package export, as API Extractor's models tell it. */
export class ApiSurface {
  /** `{ page, specifier, items }` of each entry, an item belonging to the entry that is nearest to it. */
  entries
  #byName = new Map()

  constructor(models) {
    // The first entry re-exports the second, and the others name types of both.
    const [whole, part, ...others] = models
    for (const exported of [true, false]) {
      for (const { page, items } of [part, whole, ...others]) {
        for (const item of items.filter((item) => isExported(item) === exported)) {
          if (!this.#byName.has(item.name)) this.#byName.set(item.name, { page, item })
        }
      }
    }
    const named = this.#namedBy(models.flatMap(({ items }) => items.filter(isExported)))
    for (const [name, { item }] of this.#byName) {
      if (!isExported(item) && !named.has(item)) this.#byName.delete(name)
    }
    this.entries = models.map((entry) => ({
      ...entry,
      items: entry.items.filter(({ name }) => this.find(name)?.page === entry.page),
    }))
  }

  /** What the signatures of `items` name, and what the signatures of that name, and so on. */
  #namedBy(items) {
    const named = new Set()
    const follow = (item) => {
      for (const token of [item, ...(item.members ?? [])].flatMap(({ excerptTokens }) => excerptTokens)) {
        const found = this.referredBy(token)?.item
        if (found === undefined || named.has(found)) continue
        named.add(found)
        follow(found)
      }
    }
    items.forEach(follow)
    return named
  }

  /** The exports of all entries; an overloaded function comes once for each overload. */
  publicItems() {
    return this.entries.flatMap(({ items }) => items.filter(isExported))
  }

  exports(name) {
    const found = this.#byName.get(name)
    return found !== undefined && isExported(found.item)
  }

  /** `{ page, item }` of a name of ours, exported or not. */
  find(name) {
    return this.#byName.get(name)
  }

  /** `{ page, item }` of what a token of a signature refers to, when it is ours. */
  referredBy({ kind, canonicalReference = '' }) {
    const [, name] = kind === 'Reference' ? (/^mcp-gatekit!~?(\w+):/.exec(canonicalReference) ?? []) : []
    return name === undefined ? undefined : this.find(name)
  }

  /**
   * The members of a class or interface, with those of bases that are not exported, in whose place the type stands.
   * A member without a docstring has that of the member it implements or overrides.
   */
  membersOf(item) {
    const own = item.members ?? []
    const bases = this.#basesOf(item)
    const documented = new Map(
      bases.flatMap((base) => this.membersOf(base)).map((member) => [member.name, member]),
    )
    const inherited = bases
      .filter((base) => !isExported(base))
      .flatMap((base) => this.membersOf(base))
      .filter(({ name, kind }) => kind !== 'Constructor' && !own.some((member) => member.name === name))
    return [...own, ...inherited].sort(byKind).map((member) => {
      if (MADE_UP.test(member.docComment)) return { ...member, docComment: '' }
      if (member.docComment !== '') return member
      return { ...member, docComment: documented.get(member.name)?.docComment ?? '' }
    })
  }

  /** The types that users can import and whose members this one has as well. */
  exportedBasesOf(item) {
    return this.#namedAt(item, extendedBy(item)).filter(isExported)
  }

  #basesOf(item) {
    return this.#namedAt(item, [...extendedBy(item), ...(item.implementsTokenRanges ?? [])])
  }

  /** The types of ours that ranges of a signature begin with; type arguments follow. */
  #namedAt({ excerptTokens }, ranges) {
    return ranges.flatMap(({ startIndex, endIndex }) => {
      const found = startIndex < endIndex ? this.referredBy(excerptTokens[startIndex]) : undefined
      return found === undefined ? [] : [found.item]
    })
  }
}

/** What a class extends, or an interface. */
function extendedBy({ extendsTokenRange, extendsTokenRanges = [] }) {
  return [...(extendsTokenRange === undefined ? [] : [extendsTokenRange]), ...extendsTokenRanges]
}

/** Whether users can import it. What they cannot has a `~` in its reference. */
export function isExported({ canonicalReference }) {
  return !canonicalReference.includes('!~')
}

/** How one comes by an object first: its constructor, then what is static. */
function byKind(a, b) {
  const rank = ({ kind, isStatic }) => (kind === 'Constructor' ? 0 : isStatic ? 1 : 2)
  return rank(a) - rank(b)
}
