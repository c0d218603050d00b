package web

import "bytes"

// labelCells returns HTML whose table cells have the heading of their column as data-label: on narrow screens, a row is a record with
// these labels. A cell over several columns has none.
func labelCells(html []byte) []byte {
	var out bytes.Buffer
	var heads [][]byte
	column := 0
	for {
		i := bytes.IndexByte(html, '<')
		if i < 0 {
			out.Write(html)
			return out.Bytes()
		}
		out.Write(html[:i])
		html = html[i:]
		end := bytes.IndexByte(html, '>') + 1 // attributes contain no >, which templates escape
		if end == 0 {
			end = len(html)
		}
		tag := html[:end]
		html = html[end:]
		switch name, _, _ := bytes.Cut(bytes.Trim(tag, "<>"), []byte(" ")); string(name) {
		case "table":
			heads = nil
		case "tr":
			column = 0
		case "th":
			text, _, _ := bytes.Cut(html, []byte("</th>"))
			heads = append(heads, withoutTags(text))
		case "td":
			if column < len(heads) && !bytes.Contains(tag, []byte(" colspan=")) {
				out.WriteString(`<td data-label="`)
				out.Write(heads[column])
				out.WriteByte('"')
				tag = tag[len("<td"):]
			}
			column++
		}
		out.Write(tag)
	}
}

// withoutTags returns the text of HTML, still escaped.
func withoutTags(html []byte) (text []byte) {
	for len(html) > 0 {
		before, rest, _ := bytes.Cut(html, []byte("<"))
		text = append(text, before...)
		_, html, _ = bytes.Cut(rest, []byte(">"))
	}
	return text
}
