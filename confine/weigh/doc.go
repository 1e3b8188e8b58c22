// Package weigh decides whether YAML that other people wrote may be parsed: it limits the number of values and bytes
// after expanding aliases, and checks that the lines are those that a person sees.
//
// Its input is text, or the nodes of parsed text; its output is nil or a *Error. It creates no value from the text, so
// its cost is proportional to the length of the text. Call it before every parser: a few hundred bytes with aliases, or
// a few megabytes of brackets, can expand to more than the available memory.
package weigh
