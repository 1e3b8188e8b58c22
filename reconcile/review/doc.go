// Package review says what a Preview comes to for those who review it: one line for a commit
// status, and Markdown for a comment on a pull request.
//
// In goes a Preview, out come texts. What stands in a commit is data: in Markdown it stands in
// code, where it is neither a link nor a mention nor HTML, and every text is bounded. It asks
// nobody, and decides nothing that the Preview has not decided.
package review
