//! Fabrics that wrap a fabric.
