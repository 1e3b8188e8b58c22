package simulate

// DecodeUpTo is Decode with another limit.
var DecodeUpTo = decode
