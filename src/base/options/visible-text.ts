/** Characters that show nothing, with the Braille pattern without dots and the musical note without a head. */
export const INVISIBLE = /[\p{C}\p{Default_Ignorable_Code_Point}\u{2800}\u{1d159}]/gu

/** Returns `true` if something of a text is visible. */
export function isVisible(text: string): boolean {
  return /[\p{L}\p{N}\p{P}\p{S}]/u.test(text.replace(INVISIBLE, ''))
}
