/** Pseudo-random numbers (sfc32). Equal seeds give equal numbers. */
export class Random {
  #a = 0
  #b = 0
  #c = 0
  #counter = 1

  constructor(...seeds: readonly (number | string)[]) {
    this.reseed(...seeds)
  }

  reseed(...seeds: readonly (number | string)[]): void {
    let hash = 2_166_136_261
    for (const character of seeds.join('/')) hash = Math.imul(hash ^ character.charCodeAt(0), 16_777_619)
    this.#a = hash
    this.#b = hash ^ 0x9e3779b9
    this.#c = Math.imul(hash, 0x85ebca6b)
    this.#counter = 1
    for (let round = 0; round < 12; round++) this.#bits()
  }

  #bits(): number {
    const sum = (this.#a + this.#b + this.#counter++) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }

  /** A number from 0 up to 1. */
  next(): number {
    return this.#bits() / 2 ** 32
  }

  /** A number between two others. */
  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  /** A whole number below `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T
  }

  /** A waiting time whose mean is known (exponential distribution). */
  wait(meanMs: number): number {
    return -Math.log(1 - this.next()) * meanMs
  }

  fill(bytes: Uint8Array): void {
    for (let index = 0; index < bytes.length; index += 4) {
      const bits = this.#bits()
      for (let byte = 0; byte < 4 && index + byte < bytes.length; byte++)
        bytes[index + byte] = bits >>> (8 * byte)
    }
  }
}
