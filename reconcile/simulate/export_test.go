package simulate

// DecodeUpTo is DecodeCapture with another limit.
var DecodeUpTo = decode
