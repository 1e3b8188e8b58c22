package promotion

// Trailer is the trailer of a commit that asks to be taken without a soak and outside of windows.
const Trailer = "Plumbline-Emergency"

// References returns the Git references that the record of a member may be at: the first one, or, if the host takes no
// such reference, the second one, which is a branch.
func (m Member) References() []string {
	return []string{"refs/plumbline/" + m.String(), "refs/heads/plumbline/records/" + m.String()}
}
