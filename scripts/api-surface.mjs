/** The docstring that the extractor generates for a constructor without one. */
const MADE_UP = /Constructs a new instance of the `\w+` class/

/** The public surface: the exports of all entries, from the models of API Extractor. */
export class ApiSurface {
  /** The entries as `{ name, specifier, items }`. An item of several entries belongs to the most specific one. */
  entries
  #byName = new Map()

  constructor(models) {
    // The first entry re-exports the second, and the others use types of both.
    const [whole, part, ...others] = models
    for (const exported of [true, false]) {
      for (const { name: entry, items } of [part, whole, ...others]) {
        for (const item of items.filter((item) => isExported(item) === exported)) {
          if (!this.#byName.has(item.name)) this.#byName.set(item.name, { entry, item })
        }
      }
    }
    const named = this.#namedBy(models.flatMap(({ items }) => items.filter(isExported)))
    for (const [name, { item }] of this.#byName) {
      if (!isExported(item) && !named.has(item)) this.#byName.delete(name)
    }
    this.entries = models.map((entry) => ({
      ...entry,
      items: entry.items.filter(({ name }) => this.find(name)?.entry === entry.name),
    }))
  }

  /** Returns the items that the signatures of `items` use, directly or indirectly. */
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

  /** Returns the exports of all entries. An overloaded function occurs once for each overload. */
  publicItems() {
    return this.entries.flatMap(({ items }) => items.filter(isExported))
  }

  exports(name) {
    const found = this.#byName.get(name)
    return found !== undefined && isExported(found.item)
  }

  /** Returns `{ entry, item }` of a name of this package, exported or not. */
  find(name) {
    return this.#byName.get(name)
  }

  /** Returns `{ entry, item }` of the item that a token of a signature refers to, if this package declares it. */
  referredBy({ kind, canonicalReference = '' }) {
    const [, name] = kind === 'Reference' ? (/^mcp-gatekit!~?(\w+):/.exec(canonicalReference) ?? []) : []
    return name === undefined ? undefined : this.find(name)
  }

  /**
   * Returns the members of a class or interface, including those of bases that are not exported.
   * A member without a docstring gets that of the member that it implements or overrides.
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
    return [...own, ...inherited].map((member) => {
      if (MADE_UP.test(member.docComment)) return { ...member, docComment: '' }
      if (member.docComment !== '') return member
      return { ...member, docComment: documented.get(member.name)?.docComment ?? '' }
    })
  }

  #basesOf(item) {
    return this.#namedAt(item, [...extendedBy(item), ...(item.implementsTokenRanges ?? [])])
  }

  /** Returns the types of this package at the beginning of ranges of a signature. Type arguments follow them. */
  #namedAt({ excerptTokens }, ranges) {
    return ranges.flatMap(({ startIndex, endIndex }) => {
      const found = startIndex < endIndex ? this.referredBy(excerptTokens[startIndex]) : undefined
      return found === undefined ? [] : [found.item]
    })
  }
}

/** Returns the ranges of the types that a class or interface extends. */
function extendedBy({ extendsTokenRange, extendsTokenRanges = [] }) {
  return [...(extendsTokenRange === undefined ? [] : [extendsTokenRange]), ...extendsTokenRanges]
}

/** Returns whether users can import an item. The reference of any other item contains `!~`. */
function isExported({ canonicalReference }) {
  return !canonicalReference.includes('!~')
}
