package awssim

import "strings"

// regionCode shortens a region's name as zone IDs do: eu-west-1 is euw1,
// ap-southeast-2 is apse2.
func regionCode(region string) string {
	var b strings.Builder
	for i, part := range strings.Split(region, "-") {
		switch {
		case i == 0 || len(part) == 1:
			b.WriteString(part)
		default:
			for _, direction := range []string{"north", "south", "east", "west", "central"} {
				if strings.Contains(part, direction) {
					b.WriteByte(direction[0])
				}
			}
		}
	}
	return b.String()
}
