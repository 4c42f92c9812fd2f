package compare

// OpenOurs opens this module's client otherwise than Peers do.
var OpenOurs = openOurs
