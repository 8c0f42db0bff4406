import { expect } from 'chai'
import { escapeHtml } from '../../cli/escape-html.ts'

describe('escapeHtml', () => {
  for (const [what, text, escaped] of [
    ['a tag', '<b>', '&lt;b&gt;'],
    ['the end of a quoted attribute', `" onload='x'`, '&quot; onload=&#39;x&#39;'],
    ['a character reference', '&lt;', '&amp;lt;'],
    ['every special character twice', `&<>"'&<>"'`, '&amp;&lt;&gt;&quot;&#39;&amp;&lt;&gt;&quot;&#39;'],
    ['other characters', 'Größe 1/2 = ½', 'Größe 1/2 = ½'],
    ['an empty string', '', ''],
  ] as const) {
    it(`${what} is escaped to ${JSON.stringify(escaped)}`, () => expect(escapeHtml(text)).to.equal(escaped))
  }
})
